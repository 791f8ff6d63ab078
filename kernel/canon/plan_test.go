package canon

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand"
	"reflect"
	"testing"
	"time"
)

// planned has a member of every kind that a plan writes, and some members that a plan
// leaves to encoding/json.
type planned struct {
	Text   string         `json:"text"`
	Short  named          `json:"z-name,omitempty"`
	Yes    bool           `json:"yes"`
	No     bool           `json:"no,omitempty"`
	N      int            `json:"n"`
	Small  int8           `json:"a,omitempty"`
	Big    int64          `json:",omitempty"`
	F      float64        `json:"f"`
	Number json.Number    `json:"number"`
	P      *string        `json:"p"`
	Next   *planned       `json:"next,omitempty"`
	List   []string       `json:"list"`
	Items  []item         `json:"items,omitempty"`
	Map    map[string]int `json:"map"`
	Names  map[named]item `json:"names,omitempty"`
	Any    any            `json:"any"`
	Hidden string         `json:"-"`
	embedded
	Foreign *foreigner `json:"foreign,omitempty"`
}

type named string

type item struct {
	Path string      `json:"path"`
	Hash ContentHash `json:"hash"`
}

type embedded struct {
	Inner string `json:"inner"`
	Deep  []item `json:"b,omitzero"`
}

// foreigner has members that only encoding/json writes.
type foreigner struct {
	When  time.Time       `json:"when,omitzero"`
	Raw   json.RawMessage `json:"raw,omitempty"`
	Bytes []byte          `json:"bytes"`
	Three [3]int          `json:"three,omitempty"`
	U     uint            `json:"u"`
	Key   map[int]string  `json:"key"`
	Text  int             `json:"text,string"`
	Single
	*item
}

type Single struct {
	F32 float32 `json:"f32"`
}

// fill sets a random value. About one string or number in 300 is one that no text may
// hold.
func fill(rng *rand.Rand, v reflect.Value, depth int) {
	wrong := rng.Intn(300) == 0
	switch v.Kind() {
	case reflect.String:
		switch {
		case v.Type() == reflect.TypeFor[json.Number]():
			v.SetString([]string{"", "0", "-0", "1.50", "2e-3", "1E30", "x", "1e-400"}[rng.Intn(6)])
		case wrong:
			v.SetString([]string{"a\xff", "\uffff", "\ufdd0b", "\xed\xa0\x80"}[rng.Intn(4)])
		default:
			v.SetString(randomString(rng))
		}
	case reflect.Bool:
		v.SetBool(rng.Intn(2) == 0)
	case reflect.Int, reflect.Int64:
		if wrong {
			v.SetInt(int64(rng.Uint64()))
			break
		}
		v.SetInt(rng.Int63n(2*MaxSafeInteger) - MaxSafeInteger)
	case reflect.Int8:
		v.SetInt(int64(rng.Intn(5) - 2))
	case reflect.Uint:
		v.SetUint(uint64(rng.Intn(100)))
	case reflect.Float64, reflect.Float32:
		v.SetFloat(float64(rng.Intn(4)) * 0.1)
		if wrong {
			v.SetFloat([]float64{math.NaN(), math.Inf(1), 1e300, math.Copysign(0, -1)}[rng.Intn(4)])
		}
	case reflect.Pointer:
		if depth > 0 && rng.Intn(3) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(rng, v.Elem(), depth-1)
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte([]string{"", `{"b":1.0,"a":"\u00e9"}`, `{"a":1,"a":2}`, "[1]"}[rng.Intn(4)]))
			break
		}
		if n := rng.Intn(4); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n-1, n-1))
		}
		for i := range v.Len() {
			if v.Index(i).CanInt() || v.Index(i).Kind() != reflect.Uint8 {
				fill(rng, v.Index(i), depth-1)
			}
		}
	case reflect.Map:
		for range rng.Intn(4) {
			if v.IsNil() {
				v.Set(reflect.MakeMap(v.Type()))
			}
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(rng, key, 0)
			fill(rng, value, depth-1)
			v.SetMapIndex(key, value)
		}
	case reflect.Interface:
		switch one := (planned{}); {
		case depth > 0 && rng.Intn(4) == 0:
			fill(rng, reflect.ValueOf(&one).Elem(), depth-2)
			v.Set(reflect.ValueOf([]any{one, &one, one.Items}[rng.Intn(3)]))
		default:
			if x := randomValue(rng, min(max(depth, 0), 2)); x != nil {
				v.Set(reflect.ValueOf(x))
			}
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(rng.Int63n(1<<32), 0).UTC()))
			break
		}
		for i := range v.NumField() {
			switch f := v.Field(i); {
			case v.Type().Field(i).Name == "Foreign" && rng.Intn(4) > 0:
			case f.CanSet():
				fill(rng, f, depth-1)
			case v.Type().Field(i).Anonymous && f.Kind() == reflect.Struct:
				for k := range f.NumField() {
					fill(rng, f.Field(k), depth-1)
				}
			}
		}
	}
}

// TestPlanAgrees compares the text that a plan writes, and its errors, with encoding/json
// followed by jcs.
func TestPlanAgrees(t *testing.T) {
	var plan Plan[planned]
	refused, foreign := 0, 0
	rng := rand.New(rand.NewSource(34))
	for n := range 20000 {
		var v planned
		fill(rng, reflect.ValueOf(&v).Elem(), 3)
		want, wanted := Transform(v)
		if wanted != nil {
			refused++
		} else if v.Foreign != nil {
			foreign++
		}
		if again, err := TransformAgain(v); wanted == nil && (err != nil || !bytes.Equal(again, want)) {
			t.Fatalf("value %d again:\ngot  %s %v\nwant %s", n, again, err, want)
		}
		for name, write := range map[string]func() ([]byte, error){
			"plan":      func() ([]byte, error) { return plan.Canonical(&v) },
			"canonical": func() ([]byte, error) { return Canonical(v) },
			"pointer":   func() ([]byte, error) { return Canonical(&v) },
		} {
			if n%10 > 0 && name != "plan" {
				continue
			}
			got, err := write()
			if !bytes.Equal(got, want) || !sameError(err, wanted) {
				t.Fatalf("%s of value %d:\ngot  %s %v\nwant %s %v", name, n, got, err, want, wanted)
			}
		}
	}
	if refused < 1000 || foreign < 100 || refused > 10000 {
		t.Errorf("%d values are refused and %d left to encoding/json: another test", refused, foreign)
	}
}

func sameError(a, b error) bool {
	var x, y *Error
	if !errors.As(a, &x) || !errors.As(b, &y) {
		return a == nil && b == nil
	}
	return x.Error() == y.Error() && x.Kind == y.Kind && x.Pointer == y.Pointer && x.Offset == y.Offset
}

// TestPlanAlone: the values that a plan is for are written without encoding/json.
func TestPlanAlone(t *testing.T) {
	one := "one"
	v := planned{P: &one, Next: &planned{Number: "1"}, Items: []item{{"p", "h"}}, Number: "2", Any: []any{item{}, &embedded{}}}
	s := stepOf(reflect.TypeFor[planned](), map[reflect.Type]*step{})
	if text, err := s(nil, reflect.ValueOf(v), 1); err != nil {
		t.Errorf("%s: %v", text, err)
	}
}

func TestPlanArtifact(t *testing.T) {
	var plan Plan[item]
	v := item{Path: "p"}
	text, sum, err := plan.Artifact(&v)
	want, wantSum, wantErr := Artifact(v)
	if err != nil || wantErr != nil || !bytes.Equal(text, want) || sum != wantSum {
		t.Errorf("got %s %s %v, want %s %s %v", text, sum, err, want, wantSum, wantErr)
	}
	// The room may be absent, too small, full or large.
	for _, room := range [][]byte{nil, make([]byte, 3), bytes.Repeat([]byte("x"), 5000), make([]byte, 0, 5000)} {
		text, sum, err := plan.ArtifactIn(room, &v)
		if err != nil || !bytes.Equal(text, want) || sum != wantSum {
			t.Errorf("in %d bytes: got %s %s %v, want %s %s", cap(room), text, sum, err, want, wantSum)
		}
		id, err := plan.ID(room, "x_", &v)
		if want, wantErr := ID("x_", v); err != nil || wantErr != nil || id != want {
			t.Errorf("in %d bytes: got %s %v, want %s %v", cap(room), id, err, want, wantErr)
		}
	}
	if _, err := plan.ID(nil, "x_", &item{Path: "\xff"}); err == nil {
		t.Error("an id of what is not UTF-8")
	}
}
