package report

import (
	"bytes"
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/fiador/fiador/kernel/canon"
)

// Position is a place between two characters of a text. Lines count from 1 and end with
// LF; columns count from 1, in UTF-16 code units.
type Position struct{ Line, Column int }

// region is a part of a text; end is the position after it.
type region struct{ start, end Position }

// locate sets the regions of an item's findings: the byte that an error names, else the
// value at the pointer. A finding without a place gets the start of the text.
func locate(i Item, list []finding) {
	src, first := i.Source, 1
	if i.Line > 0 {
		src, first = bytes.TrimRight(src, "\r\n"), i.Line
	}
	spans := spansOf(src, list)
	offsets := make([]int, 0, 2*len(spans))
	for _, s := range spans {
		offsets = append(offsets, s.Start, s.End)
	}
	slices.Sort(offsets)
	offsets = slices.Compact(offsets)
	found := positions(src, offsets)
	at := func(offset int) Position {
		k, _ := slices.BinarySearch(offsets, offset)
		p := found[k]
		p.Line += first - 1
		return p
	}
	for k, s := range spans {
		list[k].region = region{at(s.Start), at(s.End)}
	}
}

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
		at[i] = f.region.start
	}
	return at
}

func spansOf(src []byte, list []finding) []canon.Span {
	pointers := make([]string, len(list))
	for k, f := range list {
		pointers[k] = f.pointer
	}
	spans := canon.Locate(src, pointers)
	for k, f := range list {
		if f.hasOffset {
			spans[k] = character(src, f.offset)
		} else if !f.hasPointer {
			spans[k] = canon.Span{}
		}
	}
	return spans
}

// character returns the span of the character at an offset. At a line end and after the
// text it is empty.
func character(src []byte, offset int64) canon.Span {
	start := int(min(max(offset, 0), int64(len(src))))
	if start == len(src) || src[start] == '\n' || src[start] == '\r' {
		return canon.Span{Start: start, End: start}
	}
	_, size := utf8.DecodeRune(src[start:])
	return canon.Span{Start: start, End: start + size}
}

// positions returns the positions of offsets. The offsets are sorted and within the
// text; one pass finds them all.
func positions(src []byte, offsets []int) []Position {
	list := make([]Position, 0, len(offsets))
	at, p := Position{1, 1}, 0
	for _, offset := range offsets {
		for p < offset {
			r, size := utf8.DecodeRune(src[p:])
			if p += size; r == '\n' {
				at = Position{at.Line + 1, 1}
			} else {
				at.Column += utf16.RuneLen(r)
			}
		}
		list = append(list, at)
	}
	return list
}
