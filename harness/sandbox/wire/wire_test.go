package wire

import (
	"bytes"
	"reflect"
	"testing"
)

type inner struct{ N uint32 }

type sample struct {
	N    int
	Big  uint64
	Yes  bool
	Text string
	Raw  []byte
	List []string
	At   *inner
	None *inner
}

func codeInner(c *Coder, i *inner) { Number(c, &i.N) }

func codeSample(c *Coder, s *sample) {
	Number(c, &s.N)
	Number(c, &s.Big)
	Bool(c, &s.Yes)
	Text(c, &s.Text)
	Text(c, &s.Raw)
	List(c, &s.List, Text[string])
	Pointer(c, &s.At, codeInner)
	Pointer(c, &s.None, codeInner)
}

// TestRoundTrip: what is written is read back, and no shorter or longer text is accepted.
func TestRoundTrip(t *testing.T) {
	want := sample{-7, 1<<64 - 1, true, "text \x00 é", []byte{0, 255}, []string{"", "a"}, &inner{1<<32 - 1}, nil}
	c := &Coder{}
	codeSample(c, &want)
	var got sample
	if err := Decode(c.B, &got, codeSample); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, error %v, want %+v", got, err, want)
	}
	for n := range c.B {
		if Decode(c.B[:n], new(sample), codeSample) == nil {
			t.Errorf("%d of %d bytes are accepted", n, len(c.B))
		}
	}
	if Decode(append(bytes.Clone(c.B), 0), new(sample), codeSample) == nil {
		t.Error("a byte more is accepted")
	}
}

// TestLengths: a length that is larger than the rest is an error, and takes no memory.
func TestLengths(t *testing.T) {
	for _, n := range []uint64{1, 1 << 40, 1 << 63, 1<<64 - 1} {
		b := make([]byte, 8)
		Put(b, n)
		if Get(b) != n {
			t.Errorf("%d is read as %d", n, Get(b))
		}
		var text string
		var list []string
		if Decode(b, &text, Text[string]) == nil || Decode(b, &list, func(c *Coder, l *[]string) { List(c, l, Text[string]) }) == nil {
			t.Errorf("a length of %d is accepted", n)
		}
	}
}
