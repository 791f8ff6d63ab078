package specs

import (
	"embed"
	"io/fs"
)

//go:embed vectors/run/*.json
var runVectors embed.FS

// RunVectors returns the folder vectors/run: files of intents, with their expected
// results.
func RunVectors() fs.FS {
	sub, err := fs.Sub(runVectors, "vectors/run")
	if err != nil {
		panic(err) // the path is a constant
	}
	return sub
}
