package disk

import (
	"bytes"
	"context"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/ledger"
)

// mendTiles writes full tiles again if they differ from the entries. The entries lead to
// a signed root.
func (s *state) mendTiles() ([]string, error) {
	var did []string
	mend := func(t tlog.Tile, content []byte) error {
		path := ledger.TilePath(t)
		has, err := readFile(s.files, path, int64(len(content)))
		if err == nil && bytes.Equal(has, content) {
			return nil
		}
		did = append(did, "wrote "+path+" again")
		return placeTile(s.files, path, content)
	}
	var edges ledger.Edges
	_, err := scan(context.Background(), s.truth, tail{}, nil, func(e entered) error { return addNodes(&edges, e.nodes, mend) })
	return did, err
}
