package main

import (
	"io/fs"
	"os"

	"github.com/fiador/fiador/ledger"
)

// follow reads what the server that writes has claimed so far. When this server takes over, it
// has to read the rest alone. What goes wrong here is found when it takes over.
func (p *posix) follow() {
	if p.followed == nil {
		file, err := p.root.Open(nameClaims)
		if err != nil {
			return
		}
		p.followed = claimsIn(file, nil)
	}
	text, err := p.resource("checkpoint")
	if err != nil {
		return
	}
	if c, err := ledger.ParseCheckpoint(text); err == nil {
		_, _ = p.followed.read(c.Size, newView(p)) // claims that no checkpoint covers yet end it with an error
	}
}

// claimsIn returns the claims of a file: those that were followed, if it is the same file. It
// closes the file that was followed.
func claimsIn(file *os.File, followed *fileClaims) *fileClaims {
	if followed == nil {
		return &fileClaims{file: file}
	}
	defer followed.file.Close()
	var infos [2]fs.FileInfo
	for i, f := range []*os.File{followed.file, file} {
		var err error
		if infos[i], err = f.Stat(); err != nil {
			return &fileClaims{file: file}
		}
	}
	if !os.SameFile(infos[0], infos[1]) {
		return &fileClaims{file: file}
	}
	return &fileClaims{file: file, size: followed.size, offsets: followed.offsets, runs: followed.runs, latest: followed.latest}
}

// intact says whether the file has the last claim where it was read, and the log its entry. A
// file that was written again has it elsewhere.
func (c *fileClaims) intact(size int64, log leaves) bool {
	last := int64(len(c.offsets)) - 1
	if last < 0 {
		return true
	}
	if last >= size {
		return false
	}
	it, err := c.entry(last)
	if err != nil {
		return false
	}
	h, err := log.leaf(last, size)
	return err == nil && h == ledger.LeafHash(it.entry)
}
