// Package transcript is the log that safe-run keeps of a command: the bytes that the
// command wrote to both its streams, and the order of the lines. [Run] writes a log and
// [Open] reads one back. This package opens no file and reads no clock.
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
// raw are the bytes of a stream, with any values. The LF before a header
// belongs to the header. So a stream that ends with LF is followed by an empty line, and
// a stream that does not is not. The numbers are decimal, from 1 on, without a gap; code
// is a decimal number up to 4294967295. command and remark are UTF-8 without control
// characters, U+2028 and U+2029. A remark does not begin as a start or an exit does.
//
// Each line of a stream is an event. A line ends with LF. Bytes after the last LF are a
// line too. A line takes its place among the events when its LF is read. A last line
// without LF comes when both streams have ended, that of standard output first.
//
// The text of a line is the line without its LF, and without one CR directly before that
// LF. There is one exception: the line without its LF is not valid UTF-8, or begins with
// "base64:". Then the text is "base64:" and the line without its LF, CR included, in the
// standard base64 of RFC 4648 with padding. Every other byte is unchanged: a lone CR,
// NUL, ESC, U+2028 (TestLines).
//
// So every line of the events begins with "[SEQ=", and the last line "--- BEGIN EVENTS
// ---" is the true one, whatever the command writes. The place where standard error
// begins follows from the events of standard output (TestForgery).
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
// The merged view consists of the original lines of both streams, in the order of their
// events.
//
// # Guarantees
//
//   - A run has exactly one log, and a log has exactly one run. A log that Open accepts is
//     written again with the same bytes (FuzzOpen), and Open accepts every written log
//     (FuzzRun).
//   - Writing needs the same memory for all streams, lines of a gigabyte included
//     (TestMemory). Reading needs a few times the memory of the longest event line
//     (TestMemoryOfReading).
//   - A truncated or damaged log is an error that says where and why (TestDamaged). A log
//     has no checksum. To detect a replaced log, keep its hash elsewhere. A truncated log
//     can also look complete, if the command has written the text of such an end. So
//     logs should be put in place as whole files.
package transcript
