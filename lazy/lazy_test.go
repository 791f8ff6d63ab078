package lazy_test

import (
	"testing"

	"github.com/fiador/fiador/lazy"
)

func TestValue(t *testing.T) {
	made := 0
	v := lazy.Value[int]{Make: func() int { made++; return made }}
	if a, b := v.Get(), v.Get(); a != 1 || b != 1 {
		t.Errorf("got %d and %d; the value is made once", a, b)
	}
}

// TestPanic: a value that could not be made is never the zero value.
func TestPanic(t *testing.T) {
	v := lazy.Value[map[string]bool]{Make: func() map[string]bool { panic("no value") }}
	for range 2 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("Get returned")
				}
			}()
			v.Get()
		}()
	}
}
