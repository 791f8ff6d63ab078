package dispatch

import (
	"strconv"

	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/specs"
)

// smallEntry is less than the bytes of a tool in an index.
const smallEntry = 300

// skim reads an index as specs.Skim does: what it refuses may be an index. The numbers are
// the places of the members in canonical order.
func skim(text string) (*Index, bool) {
	x := &Index{Tools: make([]IndexedTool, 0, min(MaxTools, len(text)/smallEntry)), Servers: []IndexedServer{}}
	var adapters []IndexedAdapter // of the next tool
	ok := specs.Skim(specs.KindToolIndex, text, func(list string, v []string) {
		switch list {
		case "adapters":
			adapters = append(adapters, IndexedAdapter{
				AdapterID: v[0], File: v[1], Name: v[2], SHA256: canon.ContentHash(v[3]), SizeBytes: number(v[4]),
				Status: v[5], ToolID: v[6], Type: adapter.Type(v[7]), Version: v[8],
			})
		case "servers":
			x.Servers = append(x.Servers, IndexedServer{File: v[0], Name: v[1], SHA256: canon.ContentHash(v[2]), SizeBytes: number(v[3])})
		case "tools":
			x.Tools = append(x.Tools, IndexedTool{
				Adapters: adapters, File: v[1], Name: v[2], SHA256: canon.ContentHash(v[3]), SizeBytes: number(v[4]),
				Status: v[5], ToolID: v[6], Version: v[7],
			})
			adapters = nil
		default:
			x.Version = v[0]
		}
	})
	return x, ok
}

// number is a whole number that Skim has read.
func number(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}
