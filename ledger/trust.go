package ledger

import "fmt"

// Trusting returns the keys of the ledger if the trusted key is among them. A trusted
// key is enough, because each key is vouched for by the key before it. The record of the
// rotation proves this, and verification reads that record.
func (k Keys) Trusting(key Verifier) (Keys, error) {
	for i, from := range k {
		if from.Key.String() == key.String() {
			return k[i:], nil
		}
	}
	return nil, fmt.Errorf("%w: %s is none of this ledger's keys", ErrUnknownKey, key)
}
