//go:build !(linux && (amd64 || arm64))

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "fiador-shim: workers are supported on Linux (amd64, arm64) alone")
	os.Exit(1)
}
