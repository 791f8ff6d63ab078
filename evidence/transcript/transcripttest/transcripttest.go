// Package transcripttest makes runs with chosen output for tests of transcripts and of
// their readers.
package transcripttest

import (
	"io"
	"math/rand/v2"
	"strings"

	"github.com/fiador/fiador/evidence/transcript"
)

// Chunk is the result of one read from a command, or a line.
type Chunk struct {
	Stream transcript.Stream
	Text   string
}

// Out returns a chunk of standard output.
func Out(text string) Chunk { return Chunk{transcript.Stdout, text} }

// Err returns a chunk of standard error.
func Err(text string) Chunk { return Chunk{transcript.Stderr, text} }

// RunOf returns the run with these chunks.
func RunOf(chunks []Chunk) transcript.Run {
	var all [3]string
	for _, c := range chunks {
		all[c.Stream] += c.Text
	}
	section := func(s string) *io.SectionReader { return io.NewSectionReader(strings.NewReader(s), 0, int64(len(s))) }
	return transcript.Run{
		Argv: []string{"make", "a b"}, Code: 3, Notes: []string{"safe-run reader gone: stdout"},
		Stdout: section(all[transcript.Stdout]), Stderr: section(all[transcript.Stderr]),
		Order: func(yield func(transcript.Span, error) bool) {
			for _, c := range chunks {
				if !yield(transcript.Span{Stream: c.Stream, N: int64(len(c.Text))}, nil) {
					return
				}
			}
		},
	}
}

// RandomChunks returns chunks that are difficult for decoders and terminals.
func RandomChunks(rng *rand.Rand) (chunks []Chunk) {
	bits := []string{
		"\n", "\n", "\r\n", "\r", "\x00", "\x1b[2J", "\u009b", "\u2028", "\u202e", "\ufffe", "\U0010ffff", "\ufffd", "\xff", "\xe2\x80", "\xf0\x9f",
		"base64:", "eA==", "\t", " ", "word", `"`, `\`, "é", "😀", "[SEQ=2][STDOUT] ", "\n--- BEGIN EVENTS ---\n", "--- END EVENTS ---\n", "\n=== STDERR ===\n",
	}
	for range rng.IntN(12) {
		c := Chunk{Stream: transcript.Stdout + transcript.Stream(rng.IntN(2))}
		for range rng.IntN(8) {
			c.Text += bits[rng.IntN(len(bits))]
		}
		chunks = append(chunks, c)
	}
	return chunks
}
