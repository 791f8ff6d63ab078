//go:build linux && (amd64 || arm64)

package sandbox

// killRounds names the number of rounds in which a supervisor is killed.
const killRounds = "FIADOR_KILL_ROUNDS"
