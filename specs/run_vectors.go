package specs

import (
	"embed"
	"io/fs"
)

//go:embed vectors/run/*.json
var runVectors embed.FS

// RunVectors is the folder vectors/run: files of intents, and what comes of each.
func RunVectors() fs.FS {
	sub, err := fs.Sub(runVectors, "vectors/run")
	if err != nil {
		panic(err) // the path is a constant
	}
	return sub
}
