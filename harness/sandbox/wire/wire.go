// Package wire codes values as bytes and reads them back, for processes of the same program.
// One function for each type names its members once, for both directions. A number has 8
// bytes, little-endian; a text and a list begin with their length. The package imports
// nothing that delays an init (package initproc).
package wire

import "syscall"

// Coder writes values to B, or reads them from it.
type Coder struct {
	B []byte

	reading bool
	short   bool // B ended too early, or a length is larger than the rest of B
}

// Decode reads a value that takes all of b. Function code codes its type.
func Decode[T any](b []byte, v *T, code func(*Coder, *T)) error {
	c := &Coder{B: b, reading: true}
	code(c, v)
	if c.short || len(c.B) > 0 {
		return syscall.EINVAL
	}
	return nil
}

// Pointer codes whether v points to a value, and then the value.
func Pointer[T any](c *Coder, v **T, code func(*Coder, *T)) {
	has := *v != nil
	if Bool(c, &has); !has {
		return
	}
	if c.reading {
		*v = new(T)
	}
	code(c, *v)
}

// Number codes a number.
func Number[T ~int | ~int64 | ~uint32 | ~uint64](c *Coder, n *T) {
	const size = 8
	switch {
	case !c.reading:
		c.B = append(c.B, make([]byte, size)...)
		Put(c.B[len(c.B)-size:], uint64(*n))
	case len(c.B) < size:
		c.short, c.B = true, nil
	default:
		*n, c.B = T(Get(c.B[:size])), c.B[size:]
	}
}

// Bool codes a bool.
func Bool(c *Coder, v *bool) {
	n := 0
	if *v {
		n = 1
	}
	Number(c, &n)
	*v = n != 0
}

// length codes the length of what follows. Each item of a list takes at least one byte,
// so no length that can be read is larger than the number of bytes that are left.
func length(c *Coder, n int) int {
	Number(c, &n)
	if c.reading && uint(n) > uint(len(c.B)) {
		c.short, c.B = true, nil
		return 0
	}
	return n
}

// Text codes a text.
func Text[T ~string | ~[]byte](c *Coder, s *T) {
	n := length(c, len(*s))
	switch {
	case !c.reading:
		c.B = append(c.B, *s...)
	case n > 0:
		*s, c.B = T(c.B[:n]), c.B[n:]
	}
}

// List codes a list. Function item codes one item.
func List[T any](c *Coder, list *[]T, item func(*Coder, *T)) {
	n := length(c, len(*list))
	if c.reading && n > 0 {
		*list = make([]T, n)
	}
	for i := range *list {
		item(c, &(*list)[i])
	}
}

// Put writes a number into all bytes of b, little-endian. Package encoding/binary would delay
// an init.
func Put(b []byte, n uint64) {
	for i := range b {
		b[i] = byte(n >> (8 * i))
	}
}

// Get reads a number that takes all bytes of b, little-endian.
func Get(b []byte) (n uint64) {
	for i, x := range b {
		n |= uint64(x) << (8 * i)
	}
	return n
}
