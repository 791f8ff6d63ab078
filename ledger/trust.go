package ledger

import "fmt"

// Trusting returns the keys that follow from a key that is trusted: those of the
// ledger, if the trusted one is among them. Each key is vouched for by the one before
// it, whose record of the rotation verification reads.
func (k Keys) Trusting(key Verifier) (Keys, error) {
	for i, from := range k {
		if from.Key.String() == key.String() {
			return k[i:], nil
		}
	}
	return nil, fmt.Errorf("%w: %s is none of this ledger's keys", ErrUnknownKey, key)
}
