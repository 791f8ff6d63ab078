//go:build !linux

package policy

import "os"

func takeData() int { return 0 }

func neverLimited() {}

// peakMiB returns 0, because systems report this memory in different units.
func peakMiB(*os.ProcessState) int64 { return 0 }
