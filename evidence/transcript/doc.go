// Package transcript is the log that safe-run keeps of a command: what the command wrote
// to both its streams, byte for byte, and in which order, line by line. [Run] writes a
// log and [Open] reads one back. Nothing here opens a file or looks at a clock.
//
// # Format
//
//	log     = "=== STDOUT ===" LF raw
//	          LF "=== STDERR ===" LF raw
//	          LF "--- BEGIN EVENTS ---" LF start *line *note exit "--- END EVENTS ---" LF
//	start   = "[SEQ=1][META] safe-run start: cmd=" DQUOTE command DQUOTE LF
//	line    = "[SEQ=" number "][STDOUT] " text LF / "[SEQ=" number "][STDERR] " text LF
//	note    = "[SEQ=" number "][META] " remark LF
//	exit    = "[SEQ=" number "][META] safe-run exit: code=" code LF
//	text    = plain / "base64:" coded
//
// raw are the bytes of a stream, whatever they are. The LF before a header belongs to
// the header, so that a stream that ends with LF is followed by an empty line, and one
// that does not is not. The numbers are decimal, from 1 on, without a gap; code is a
// decimal number up to 4294967295. command and remark are UTF-8 without control
// characters, U+2028 and U+2029; a remark does not begin as a start or an exit does.
//
// Each line of a stream is an event. A line ends with LF, and the bytes after the last
// LF are a line too if there are any. It takes its place among the events when its LF
// is read; a last line without LF does so when both streams have ended, that of standard
// output first.
//
// The text of a line is the line without its LF, and without the CR that is right before
// that LF if there is one: one, and no other. But if the line without its LF is not
// valid UTF-8 or begins with "base64:", the text is "base64:" and the line without its
// LF, CR included, in the standard base64 of RFC 4648 with padding. Every other byte
// stands as it is: a lone CR, NUL, ESC, U+2028 (TestLines).
//
// So every line of the events begins with "[SEQ=" and the last line "--- BEGIN
// EVENTS ---" is the true one, whatever the command writes. Where standard error begins
// follows from the events of standard output (TestForgery).
//
// A command that wrote "building\n", then "warning: old\r\n" to standard error, then
// "base64:eA\ndone" and ended with 3 has this log:
//
//	=== STDOUT ===
//	building
//	base64:eA
//	done
//	=== STDERR ===
//	warning: old
//
//	--- BEGIN EVENTS ---
//	[SEQ=1][META] safe-run start: cmd="make 'a b' TARGET=all"
//	[SEQ=2][STDOUT] building
//	[SEQ=3][STDERR] warning: old
//	[SEQ=4][STDOUT] base64:YmFzZTY0OmVB
//	[SEQ=5][STDOUT] done
//	[SEQ=6][META] safe-run exit: code=3
//	--- END EVENTS ---
//
// The merged view are the lines of both streams, as they were, in the order of their
// events.
//
// # What may be relied on
//
//   - There is one log for a run, and one run for a log: a log that Open takes is
//     written again with the same bytes (FuzzOpen), and what is written is taken
//     (FuzzRun).
//   - Writing needs the same memory for any streams, lines of a gigabyte included
//     (TestMemory). Reading needs that of the longest event line, a few times over
//     (TestMemoryOfReading).
//   - A log that is cut off or damaged is an error that says where and why
//     (TestDamaged). It has no checksum: that nobody has written another one takes its
//     hash, kept elsewhere. Nor does cutting it off show when the command has written
//     what makes the rest a log; whoever keeps logs puts whole files in their place.
package transcript
