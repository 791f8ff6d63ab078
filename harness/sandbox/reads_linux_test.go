//go:build linux && (amd64 || arm64)

package sandbox

import (
	"slices"
	"strings"
	"testing"
)

// TestReads: paths that a view shows anyway, and paths beneath another listed path, are not
// shown again.
func TestReads(t *testing.T) {
	h := host{system: []string{"/usr"}, links: []string{"/bin=usr/bin"}, etc: []string{"/etc/alternatives", "/etc/ssl/certs", "/etc/resolv.conf"}}
	for read, want := range map[string]string{
		"/a":                             "/a",
		"/a /a":                          "/a",
		"/a /a/b":                        "/a",
		"/a/b /a":                        "/a",
		"/a /ab /a/b":                    "/a /ab",
		"/a/b /a/c":                      "/a/b /a/c",
		"/usr /usr/lib /usrx":            "/usrx",
		"/bin /bin/sh /sbin":             "/sbin",
		"/etc/passwd /etc/alternatives":  "/etc/passwd",
		"/etc/alternatives/x /etc/ssl":   "/etc/ssl",
		"/etc/ssl/certs /etc/ssl/certsx": "/etc/ssl/certs /etc/ssl/certsx",
		"/etc/resolv.conf":               "/etc/resolv.conf",
	} {
		given := strings.Fields(read)
		if got := strings.Join(h.reads(Request{Read: given}), " "); got != want || strings.Join(given, " ") != read {
			t.Errorf("%s: %s", read, got)
		}
	}
	open := h.reads(Request{Network: true, Read: []string{"/etc/ssl/certs/x", "/etc/resolv.conf", "/etc/ssl/private"}})
	if !slices.Equal(open, []string{"/etc/ssl/private"}) {
		t.Errorf("with a network %q", open)
	}
	for _, p := range []string{"/usr/bin/env", "/lib", "/etc/alternatives/awk"} {
		if !Shown(p) {
			t.Errorf("%s is not shown", p)
		}
	}
	for _, p := range []string{"/usrx", "/etc", "/etc/passwd", "/"} {
		if Shown(p) {
			t.Errorf("%s is shown", p)
		}
	}
}
