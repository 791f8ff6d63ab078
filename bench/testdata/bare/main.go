// Command bare appends a line of JSON of so many bytes to a file and syncs it: what a
// log costs that proves nothing.
//
//	bare FILE BYTES
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "bare:", err)
		os.Exit(1)
	}
}

func run(name, bytes string) error {
	n, err := strconv.Atoi(bytes)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(`{"text":"` + strings.Repeat("x", max(0, n-len("{\"text\":\"\"}\n"))) + "\"}\n")
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
