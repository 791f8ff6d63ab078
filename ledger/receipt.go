package ledger

// Receipt says where a record stands.
type Receipt struct {
	Index      int64      // of the record, from 0 on
	Record     Record     // as it stands there
	Checkpoint Checkpoint // the newest promise when it was given; it covers the record
	Again      bool       // the record stood there already: the run was recorded before
	Warnings   []string   // what went wrong after the record was safe
}
