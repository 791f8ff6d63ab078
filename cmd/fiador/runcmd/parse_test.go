package runcmd

import (
	"maps"
	"slices"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
)

// TestAssignments: a variable has a name, a value that may hold more =, and stands once.
func TestAssignments(t *testing.T) {
	got, err := assignments([]string{"A=b=c", "EMPTY="})
	if err != nil || !maps.Equal(got, map[string]string{"A": "b=c", "EMPTY": ""}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, list := range [][]string{{"A"}, {"=b"}, {""}, {"A=b", "A=b"}} {
		if got, err := assignments(list); err == nil {
			t.Errorf("%q is %v", list, got)
		}
	}
}

// TestPinChanges: each tool that differs stands once, by name, with the sign of its change.
func TestPinChanges(t *testing.T) {
	old := map[string]canon.ContentHash{"same": "1", "gone": "1", "other": "1"}
	now := map[string]canon.ContentHash{"same": "1", "new": "1", "other": "2"}
	if got := pinChanges(old, now); !slices.Equal(got, []string{"- gone", "+ new", "~ other"}) {
		t.Errorf("%q", got)
	}
	if got := pinChanges(old, old); got != nil {
		t.Errorf("%q", got)
	}
}
