package report

import (
	"bytes"
	"unicode/utf8"

	"github.com/fiador/fiador/kernel/canon"
)

// region is a part of a text; end is the position after it.
type region struct{ start, end canon.Position }

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
	at := canon.Positions(src, offsets)
	for k := range at {
		at[k].Line += first - 1
	}
	for k := range spans {
		list[k].region = region{at[2*k], at[2*k+1]}
	}
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
