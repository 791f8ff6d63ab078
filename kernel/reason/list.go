package reason

import (
	"errors"

	"github.com/fiador/fiador/kernel/contract"
)

// List is the summary of the reasons of an execution. The zero value has no reason.
type List struct {
	End     Reason // how the command ended; the zero value where no reason tells it
	Streams []int  // positions of the actions of which a stream was cut

	ids  map[string]bool // of all reasons but the end
	said map[Reason]bool
}

// Read reads the reasons of an execution, and skips texts that are no reason.
func Read(texts []string) List {
	var l List
	for _, text := range texts {
		_ = l.Add(text)
	}
	return l
}

// Add reads one more reason. Its error, like that of [Parse], continues a sentence that
// begins with the text.
func (l *List) Add(text string) error {
	if l.End.ID != "" && (Reason{ID: ID(text)}).Ends() {
		return errors.New("stands beside another end of the command")
	}
	r, err := Parse(text)
	if err != nil {
		return err
	}
	if r.Ends() {
		l.End = r
		return nil
	}
	if l.ids == nil {
		l.ids, l.said = map[string]bool{}, map[Reason]bool{}
	}
	l.ids[r.ID], l.said[r] = true, true
	if r.ID == StreamLimit {
		l.Streams = append(l.Streams, r.Action())
	}
	return nil
}

// ExitCode returns the exit code that the reasons stand for together. The end of the
// command decides, then a call that took too long, then what is forbidden. Without a reason
// the code is 0.
func (l List) ExitCode() int {
	switch {
	case l.End.ID != "" || len(l.ids) == 0:
		return l.End.ExitCode()
	case l.ids[CallTimeout]:
		return Reason{ID: CallTimeout}.ExitCode()
	}
	return contract.ExitForbidden
}

// Has says whether a reason other than the end of the command has this id.
func (l List) Has(id string) bool { return l.ids[id] }

// Names says whether a reason with this id names a path. An id that stands alone names
// every path: the list of its paths was cut.
func (l List) Names(id, path string) bool {
	return l.said[Reason{id, path}] || l.said[Reason{id, Quoted(path)}] || l.said[Reason{ID: id}]
}
