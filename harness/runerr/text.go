package runerr

import (
	"strconv"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// Text is a text that can be wrong, and its name in messages.
type Text struct {
	Name string
	Src  []byte
	Line int // the number of a line of JSON Lines, which is the whole text; else 0
}

// offset returns the position of a byte.
func (t Text) offset(offset int64) canon.Position {
	return t.inFile(canon.Positions(t.Src, []int{int(offset)}))[0]
}

// Places returns where the values at JSON Pointers begin.
func (t Text) Places(pointers []string) []canon.Position {
	return t.inFile(canon.Places(t.Src, pointers))
}

// inFile turns positions in the text into positions in its file.
func (t Text) inFile(at []canon.Position) []canon.Position {
	for i := range at {
		at[i].Line += max(t.Line-1, 0)
	}
	return at
}

// Fault is the RunError for a place in a text. A pointer of nil is not known. If the column
// is 0, the line is known only roughly. The name of a line of JSON Lines ends with its
// number, which the message does not repeat.
func (t Text) Fault(code result.Code, at canon.Position, pointer *string, msg string) *result.RunError {
	e := New(code, "", "", File(t.Name), With("line", at.Line), Known("column", at.Column))
	where := "line " + strconv.Itoa(at.Line)
	switch {
	case at.Column == 0:
		where = "near " + where
	case t.Line > 0:
		where = "column " + strconv.Itoa(at.Column)
	default:
		where += ", column " + strconv.Itoa(at.Column)
	}
	if pointer != nil {
		e.Details["pointer"] = *pointer
		if *pointer != "" {
			where += ", " + *pointer
		}
	}
	e.Message = t.Name + ": " + where + ": " + msg
	return e
}
