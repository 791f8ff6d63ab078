package ledger

// Receipt says where the ledger has a record.
type Receipt struct {
	Index      int64      // of the record, from 0 on
	Record     Record     // as the ledger has it
	Checkpoint Checkpoint // the newest promise at the time of the receipt; it covers the record. Zero with an Ack
	Ack        *Ack       // the promise of a server, before a checkpoint covers the record; nil: there is a Checkpoint
	Again      bool       // the ledger had the record already: the run was recorded before
	Warnings   []string   // failures after the record was safe
}
