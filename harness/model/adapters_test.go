package model

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/specs"
)

func parse(t *testing.T, src string) ([]Adapter, error) {
	t.Helper()
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	return ParseAdapters([]byte(src), set)
}

func TestParseAdapters(t *testing.T) {
	got, err := parse(t, `{"adapters": [
		{"id": "a", "base_url": "https://models.example/v1", "model": "large one", "key_env": "MODEL_KEY"},
		{"id": "B/b", "base_url": "http://localhost:8080", "model": "m"}
	]}`)
	want := []Adapter{{"a", "https://models.example/v1", "large one", "MODEL_KEY"}, {"B/b", "http://localhost:8080", "m", ""}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, error %v", got, err)
	}
	for _, base := range []string{
		"http://127.0.0.1", "http://127.8.9.1:1/", "http://[::1]:65535/v1", "http://LOCALHOST/a/b/", "http://[::ffff:127.0.0.1]/", "https://192.0.2.1", "https://host/a..b/...",
	} {
		if _, err := parse(t, `{"adapters":[{"id":"a","base_url":"`+base+`","model":"m"}]}`); err != nil {
			t.Errorf("%s: %v", base, err)
		}
	}
}

func TestParseAdaptersRefuses(t *testing.T) {
	one := func(members string) string { return `{"adapters":[{"id":"a","model":"m",` + members + `}]}` }
	base := func(url string) string { return one(`"base_url":"` + url + `"`) }
	tests := []struct{ src, pointer, want string }{
		{`{}`, "", "adapters"},
		{`{"adapters":[]}`, "/adapters", ""},
		{one(`"base_url":"https://host","key":"sk-secret"`), "/adapters/0/key", `unknown member "key"`},
		{`{"adapters":[{"id":"a","base_url":"https://h","model":"m"},{"id":"a","base_url":"https://i","model":"m"}]}`, "/adapters/1/id", `"a" is also the id of adapter 1`},
		{one(`"base_url":"https://host","key_env":"FIADOR_LEDGER_KEY"`), "/adapters/0/key_env", "is a variable of this program"},
		{base("http://192.0.2.1/v1"), "/adapters/0/base_url", "http to another machine"},
		{base("http://localhost.example"), "/adapters/0/base_url", "http to another machine"},
		{base("http://127.0.0.1.example"), "/adapters/0/base_url", "http to another machine"},
		{base("http://2130706433"), "/adapters/0/base_url", "http to another machine"},
		{base("http://0.0.0.0"), "/adapters/0/base_url", "http to another machine"},
		{base("https://user:word@host"), "/adapters/0/base_url", "a URL with a user"},
		{base("https://host@"), "/adapters/0/base_url", ""},
		{base("https://host?a=b"), "/adapters/0/base_url", "a query or a fragment"},
		{base("https://host/?"), "/adapters/0/base_url", "a query or a fragment"},
		{base("https://host#"), "/adapters/0/base_url", "a query or a fragment"},
		{base("https://host/#a"), "/adapters/0/base_url", "a query or a fragment"},
		{base("https:///path"), "/adapters/0/base_url", "not a URL with a host"},
		{base("https://:80"), "/adapters/0/base_url", "not a URL with a host"},
		{base("https://host:0"), "/adapters/0/base_url", "not a port"},
		{base("https://host:65536"), "/adapters/0/base_url", "not a port"},
		{base("https://host:"), "/adapters/0/base_url", "not a port"},
		{base("https://host:a"), "/adapters/0/base_url", "not a URL with a host"},
		{base("https://host/a/../b"), "/adapters/0/base_url", "a path with dots"},
		{base("https://host/%2e%2e"), "/adapters/0/base_url", "a path with dots"},
		{base("https://host/%zz"), "/adapters/0/base_url", "not a URL with a host"},
		{base("ftp://host"), "/adapters/0/base_url", ""},
		{base("HTTPS://host"), "/adapters/0/base_url", ""},
		{base("https://h ost"), "/adapters/0/base_url", ""},
	}
	for _, test := range tests {
		list, err := parse(t, test.src)
		var e *AdaptersError
		if !errors.As(err, &e) || e.Pointer != test.pointer || !strings.Contains(e.Msg, test.want) || list != nil {
			t.Errorf("%s: got %+v, error %v", test.src, list, err)
			continue
		}
		if strings.Contains(e.Error(), "secret") || strings.Contains(e.Error(), "word") {
			t.Errorf("%s: the error repeats a secret: %v", test.src, e)
		}
	}
	for _, src := range []string{``, `{"adapters":[],"adapters":[]}`, `{"adapters":[]} `[:14], strings.Repeat(" ", MaxAdaptersBytes) + `{}`} {
		_, err := parse(t, src)
		var e *canon.Error
		if !errors.As(err, &e) {
			t.Errorf("%.20q: error %v", src, err)
		}
	}
}
