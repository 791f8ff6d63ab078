package command

import "time"

// Budget is the time that is left to commands that run one after another; 0: they have no limit.
type Budget time.Duration

// For returns the time limit of a command: its own one, 0 for none, or what is left if that is
// less.
func (b Budget) For(own time.Duration) time.Duration {
	if left := time.Duration(b); own <= 0 || left > 0 && left < own {
		return left
	}
	return own
}

// Spend takes time from the budget. A limited budget never becomes 0, because 0 means no limit.
func (b *Budget) Spend(d time.Duration) {
	if *b > 0 {
		*b = max(*b-Budget(d), Budget(time.Millisecond))
	}
}
