package initproc

import "syscall"

// coder writes values to b, or reads them from b. One function for each type names its
// members once, for both directions. A number has 8 bytes, little-endian; a text and a list
// begin with their length.
type coder struct {
	b       []byte
	reading bool
	short   bool // b ended too early, or a length is larger than the rest of b
}

// Encode returns the plan as bytes.
func (p *Plan) Encode() []byte {
	c := &coder{}
	c.plan(p)
	return c.b
}

// DecodePlan reads a plan that Encode returned.
func DecodePlan(b []byte) (*Plan, error) {
	p := new(Plan)
	return p, decode(b, p, (*coder).plan)
}

// decode reads a value that takes all of b.
func decode[T any](b []byte, v *T, code func(*coder, *T)) error {
	c := &coder{b: b, reading: true}
	code(c, v)
	if c.short || len(c.b) > 0 {
		return syscall.EINVAL
	}
	return nil
}

func (c *coder) plan(p *Plan) {
	codeList(c, &p.Steps, (*coder).step)
	c.confine(&p.Confine)
	codeList(c, &p.Actions, (*coder).action)
	codeNumber(c, &p.GraceMS)
	codeBool(c, &p.PIDs)
}

func (c *coder) step(s *Step) {
	codeText(c, &s.Op)
	codeText(c, &s.Name)
	codeText(c, &s.From)
	codeNumber(c, &s.FD)
	codeText(c, &s.To)
	codeText(c, &s.Text)
	codeList(c, &s.Lower, codeText[string])
	codeNumber(c, &s.Attr)
	codeNumber(c, &s.Mode)
	codeNumber(c, &s.Bytes)
	codeNumber(c, &s.Inodes)
	codeNumber(c, &s.ID)
}

func (c *coder) confine(f *Confine) {
	codeNumber(c, &f.UID)
	codeNumber(c, &f.CPUs)
	codeList(c, &f.Rlimits, (*coder).rlimit)
	has := f.Landlock != nil
	if codeBool(c, &has); has {
		if c.reading {
			f.Landlock = new(Landlock)
		}
		c.landlock(f.Landlock)
	}
	codeText(c, &f.Seccomp)
	codeBool(c, &f.Last)
}

func (c *coder) rlimit(l *Rlimit) {
	codeNumber(c, &l.Resource)
	codeNumber(c, &l.Value)
}

func (c *coder) landlock(l *Landlock) {
	codeNumber(c, &l.FS)
	codeNumber(c, &l.Net)
	codeNumber(c, &l.Scoped)
	codeList(c, &l.Rules, (*coder).rule)
}

func (c *coder) rule(r *Rule) {
	codeText(c, &r.Path)
	codeNumber(c, &r.Access)
}

func (c *coder) action(a *Action) {
	codeList(c, &a.Argv, codeText[string])
	codeList(c, &a.Env, codeText[string])
	codeText(c, &a.Dir)
	codeText(c, &a.Root)
	codeText(c, &a.Path)
	codeText(c, &a.Content)
	codeBool(c, &a.Given)
	codeNumber(c, &a.Mode)
}

func codeNumber[T ~int | ~int64 | ~uint32 | ~uint64](c *coder, n *T) {
	const size = 8
	switch {
	case !c.reading:
		c.b = append(c.b, make([]byte, size)...)
		put(c.b[len(c.b)-size:], uint64(*n))
	case len(c.b) < size:
		c.short, c.b = true, nil
	default:
		*n, c.b = T(get(c.b[:size])), c.b[size:]
	}
}

func codeBool(c *coder, v *bool) {
	n := 0
	if *v {
		n = 1
	}
	codeNumber(c, &n)
	*v = n != 0
}

// codeLength codes the length of what follows. Each item of a list takes at least one byte,
// so no length that can be read is larger than the number of bytes that are left.
func codeLength(c *coder, n int) int {
	codeNumber(c, &n)
	if c.reading && uint(n) > uint(len(c.b)) {
		c.short, c.b = true, nil
		return 0
	}
	return n
}

func codeText[T ~string | ~[]byte](c *coder, s *T) {
	n := codeLength(c, len(*s))
	switch {
	case !c.reading:
		c.b = append(c.b, *s...)
	case n > 0:
		*s, c.b = T(c.b[:n]), c.b[n:]
	}
}

func codeList[T any](c *coder, list *[]T, item func(*coder, *T)) {
	n := codeLength(c, len(*list))
	if c.reading && n > 0 {
		*list = make([]T, n)
	}
	for i := range *list {
		item(c, &(*list)[i])
	}
}

// put writes a number into all bytes of b, little-endian; get reads it. Package
// encoding/binary would delay the init: more packages would be set up before it (Enter).
func put(b []byte, n uint64) {
	for i := range b {
		b[i] = byte(n >> (8 * i))
	}
}

func get(b []byte) (n uint64) {
	for i, x := range b {
		n |= uint64(x) << (8 * i)
	}
	return n
}
