package report

import "io"

// jsonLines writes the RunResults unchanged. An error has no RunResult: it is written to
// standard error.
type jsonLines struct{ w io.Writer }

func (j *jsonLines) Item(i Item) error {
	if i.Outcome() == OutcomeError {
		return nil
	}
	_, err := j.w.Write(i.Result)
	return err
}

func (j *jsonLines) Close(Summary) error { return nil }
