//go:build !(linux && (amd64 || arm64))

package sandbox

// Platform returns zero values.
func Platform() (release string, landlock int) { return "", 0 }
