//go:build !(linux && (amd64 || arm64))

package sandbox

// Platform knows nothing.
func Platform() (release string, landlock int) { return "", 0 }
