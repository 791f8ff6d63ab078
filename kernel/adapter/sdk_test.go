package adapter

import (
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
)

func TestAnswered(t *testing.T) {
	hash := string(canon.Sum(nil))
	b := &Bound{RequestHash: canon.Sum(nil)}
	for stdout, want := range map[string]Reply{
		"H {\"result\":null}":                                     {Answer: []byte("null")},
		"H {\"result\":{\"b\":1,\"a\":1e0}}\n":                    {Answer: []byte(`{"a":1,"b":1}`)},
		"x\n\xff half\nH {\"result\":1}\nmore":                    {Answer: []byte("1")},
		"H {\"result\":1}\nH {\"result\":2}\n H {\"result\":3}\n": {Answer: []byte("2")},
		"H {\"error\":{\"type\":\"E\",\"message\":\"\"}}\n":       {Failure: FailTool},
		"":                              {Failure: FailOutput},
		"H":                             {Failure: FailOutput},
		"H ":                            {Failure: FailOutput},
		"xH {\"result\":1}":             {Failure: FailOutput},
		"H{\"result\":1}":               {Failure: FailOutput},
		"H {\"result\":1}\nH no":        {Failure: FailOutput},
		"H {\"result\":1} x":            {Failure: FailOutput},
		"H {\"result\":NaN}":            {Failure: FailOutput},
		"H {\"result\":1,\"error\":{}}": {Failure: FailOutput},
		"H {\"error\":1}":               {Failure: FailOutput},
		"H {\"other\":1}":               {Failure: FailOutput},
		"H [1]":                         {Failure: FailOutput},
		"H {\"result\":\"\\ud800\"}":    {Failure: FailOutput},
		"H {\"result\":\"" + strings.Repeat("x", maxBytes) + "\"}\n": {Failure: FailOutput},
	} {
		got := b.Answered([]byte(strings.ReplaceAll(stdout, "H", hash)))
		if string(got.Answer) != string(want.Answer) || got.Failure != want.Failure || (got.Answer == nil) != (want.Answer == nil) {
			t.Errorf("%.80q: %.80q, %q", stdout, got.Answer, got.Failure)
		}
	}
}
