//go:build !race

package rehearsal

// Raced says whether the tests are built with the race detector.
const Raced = false
