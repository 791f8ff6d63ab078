package server

import "testing"

const testOrigin = "example.com/log"

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
