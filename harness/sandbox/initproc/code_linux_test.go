//go:build linux && (amd64 || arm64)

package initproc

import (
	"go/build"
	"reflect"
	"slices"
	"testing"

	"github.com/fiador/fiador/harness/sandbox/wire"
)

// filled returns a value whose members, and the members of their items, are all different
// from zero.
func filled[T any]() *T {
	v := new(T)
	n := 0
	fill(reflect.ValueOf(v).Elem(), &n)
	return v
}

func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.String:
		v.SetString("text " + string(rune('a'+*n%26)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(-int64(*n))
	case reflect.Uint8:
		v.SetUint(uint64(*n) % 256)
	case reflect.Uint32:
		v.SetUint(uint64(^uint32(*n)))
	case reflect.Uint64:
		v.SetUint(^uint64(*n))
	default:
		panic(v.Kind())
	}
}

// TestCodeEveryMember: no member of a plan, or of the input of a last step, is lost.
func TestCodeEveryMember(t *testing.T) {
	plan := filled[Plan]()
	back, err := DecodePlan(plan.Encode())
	if err != nil || !reflect.DeepEqual(plan, back) {
		t.Errorf("%v: %+v came back as %+v", err, plan, back)
	}
	empty, err := DecodePlan(new(Plan).Encode())
	if err != nil || !reflect.DeepEqual(empty, new(Plan)) {
		t.Errorf("%v: an empty plan came back as %+v", err, empty)
	}
	f, c, again := filled[final](), &wire.Coder{}, final{}
	codeFinal(c, f)
	if err := wire.Decode(c.B, &again, codeFinal); err != nil || !reflect.DeepEqual(*f, again) {
		t.Errorf("%v: %+v came back as %+v", err, f, again)
	}
}

// TestCodeOfAnotherLength: bytes that are too few or too many are an error. So is a length
// that is larger than the rest of the bytes.
func TestCodeOfAnotherLength(t *testing.T) {
	b := filled[Plan]().Encode()
	for n := range b {
		if _, err := DecodePlan(b[:n]); err == nil {
			t.Errorf("%d of %d bytes are a plan", n, len(b))
		}
		for _, x := range []byte{0x7f, 0xff} { // no length may take memory that is not there
			other := slices.Clone(b)
			other[n] = x
			_, _ = DecodePlan(other)
		}
	}
	if _, err := DecodePlan(append(b, 0)); err == nil {
		t.Error("a byte after the plan is accepted")
	}
}

// TestImports: the package imports only packages that are set up early in every program
// (Enter).
func TestImports(t *testing.T) {
	pkg, err := build.ImportDir(".", 0)
	if err != nil {
		t.Fatal(err)
	}
	early := []string{"bytes", "github.com/fiador/fiador/harness/sandbox/wire", "os", "runtime", "strconv", "sync", "sync/atomic", "syscall", "time", "unsafe"}
	for _, path := range pkg.Imports {
		if !slices.Contains(early, path) {
			t.Errorf("%s is imported: find out with GODEBUG=inittrace=1 how many packages then come before the init", path)
		}
	}
}
