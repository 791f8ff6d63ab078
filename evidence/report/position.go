package report

// Position is the beginning of a value in a text: Line counts from 1 and ends with LF,
// Column counts from 1 in UTF-16 code units.
type Position struct{ Line, Column int }

// Positions finds the values at JSON Pointers in the text of an intent, at the same
// places as the findings of a report.
func Positions(src []byte, pointers []string) []Position {
	list := make([]finding, len(pointers))
	for i, p := range pointers {
		list[i].pointer, list[i].hasPointer = p, true
	}
	locate(Item{Source: src}, list)
	at := make([]Position, len(list))
	for i, f := range list {
		at[i] = Position{f.region.start.line, f.region.start.column}
	}
	return at
}
