package main

import (
	"strings"
	"testing"
)

// TestInClear: a connection that is not encrypted goes to loopback alone, whatever its name was.
func TestInClear(t *testing.T) {
	for address, refused := range map[string]bool{
		"192.0.2.1:1": true, "[2001:db8::1]:1": true, "[fe80::1%eth0]:1": true, "0.0.0.0:1": true, "[::ffff:192.0.2.1]:1": true, "localhost:1": true,
		"127.0.0.1:1": false, "127.9.9.9:1": false, "[::1]:1": false, "[::ffff:127.0.0.1]:1": false,
	} {
		err := dialer(true).Control("tcp", address, nil)
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), inClear) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if dialer(false).Control != nil {
		t.Error("an encrypted connection is refused")
	}
}
