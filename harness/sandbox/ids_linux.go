//go:build linux && (amd64 || arm64)

package sandbox

import (
	"os"
	"slices"
	"strconv"
	"strings"
)

// hostID is the id on the host of commands in root's sandboxes. No system assigns accounts
// or ranges of accounts at this number.
const hostID = 1718157312

// span is a range of ids that a user namespace has.
type span struct{ first, size int }

// mapped returns the ids that this process's user namespace has.
func mapped(file string) []span {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	var list []span
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		first, err1 := strconv.Atoi(f[0])
		size, err2 := strconv.Atoi(f[2])
		if err1 == nil && err2 == nil {
			list = append(list, span{first, size})
		}
	}
	return list
}

// outsideID returns an id that is not root's and that, as far as this process can know, no
// account uses. It is hostID if the namespace has that id, otherwise the last id of a range,
// as in a container. It is 0 if root has no id but its own.
func outsideID(uids, gids []span) int {
	has := func(list []span, id int) bool {
		return slices.ContainsFunc(list, func(s span) bool { return id >= s.first && id-s.first < s.size })
	}
	ids := []int{hostID}
	for _, s := range uids {
		ids = append(ids, s.first+s.size-1)
	}
	for _, id := range ids {
		if id > 0 && has(uids, id) && has(gids, id) {
			return id
		}
	}
	return 0
}

// confinedID returns the id of commands without a view of their own. Where there are enough
// ids, each supervisor has one, so that two of root's sandboxes cannot reach each other.
func (h host) confinedID() int {
	if h.id != hostID {
		return h.id
	}
	return hostID + 1 + os.Getpid()%(1<<16)
}
