package grade

import (
	"cmp"
	"math"
	"slices"
)

// Every function here uses + - x / and the square root of float64 alone, and converts a product
// before it is added, so that no machine fuses the two: each gives the same bits everywhere.

// z is the quantile of the normal distribution that bounds an interval of 95 %.
const z = 1.959964

// Round returns x with 6 decimals, half away from zero. It rounds to 12 decimals before, so
// that the error of a sum does not decide what a half becomes. |x| is below 9 000.
func Round(x float64) float64 { return math.Round(math.Round(x*1e12)/1e6) / 1e6 }

// Fisher holds kn passes of nn runs of new against kb of nb of baseline, with the margins fixed.
// It returns the probability of at most kn passes of new, and of at least kn.
func Fisher(kb, nb, kn, nn int) (worse, better float64) {
	k := kb + kn
	return tails(max(0, k-nb), min(nn, k), kn, func(x int) (num, den int) { return (k - x) * (nn - x), (x + 1) * (nb - k + x + 1) })
}

// Sign returns the probability that at least b of b+c changes are for the worse, if either
// direction is as likely.
func Sign(b, c int) float64 {
	_, high := tails(0, b+c, b, func(x int) (num, den int) { return b + c - x, x + 1 })
	return high
}

// tails returns P(X <= at) and P(X >= at) of a distribution with one mode on lo to hi. step
// gives P(x+1)/P(x). The weights start with 1 at the mode, so that none overflows, and one
// that underflows is too small to matter.
func tails(lo, hi, at int, step func(x int) (num, den int)) (low, high float64) {
	mode := lo
	for ; mode < hi; mode++ {
		if num, den := step(mode); num <= den {
			break
		}
	}
	w := make([]float64, hi-lo+1)
	w[mode-lo] = 1
	for x := mode; x < hi; x++ {
		num, den := step(x)
		w[x+1-lo] = w[x-lo] * float64(num) / float64(den)
	}
	for x := mode - 1; x >= lo; x-- {
		num, den := step(x)
		w[x-lo] = w[x+1-lo] * float64(den) / float64(num)
	}
	var all float64
	for i, v := range w {
		all += v
		if lo+i <= at {
			low += v
		}
		if lo+i >= at {
			high += v
		}
	}
	return low / all, high / all
}

// Holm returns the values of p, adjusted for their number, in the order of p.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	adjusted, most := make([]float64, len(p)), 0.0
	for rank, i := range order {
		most = max(most, min(1, float64(len(p)-rank)*p[i]))
		adjusted[i] = most
	}
	return adjusted
}

// Delta returns the mean of d, and the bounds of its interval of 95 %. All are 0 without d.
func Delta(d []float64) [3]float64 {
	if len(d) == 0 {
		return [3]float64{}
	}
	n, sum, squares := float64(len(d)), 0.0, 0.0
	for _, v := range d {
		sum += v
		squares += float64(v * v)
	}
	mean := sum / n
	// Where all values are equal, the difference can be a little below 0.
	half := float64(z*math.Sqrt(max(0, squares-float64(sum*sum)/n))) / n
	return [3]float64{mean, mean - half, mean + half}
}

// Wilson returns the bounds of the interval of 95 % of a share of k in n. Nothing is known of
// a share in 0.
func Wilson(k, n int) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	size, share := float64(n), float64(k)/float64(n)
	zz := float64(z*z) / size
	mid, scale := share+zz/2, 1+zz
	half := float64(z * math.Sqrt(float64(share*(1-share))/size+zz/size/4))
	return max(0, (mid-half)/scale), min(1, (mid+half)/scale)
}
