package grade_test

import (
	"cmp"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fiador/fiador/kernel/grade"
)

// TestStatisticsVectors: the worked figures of specs/vectors/evaluation/statistics.json hold.
func TestStatisticsVectors(t *testing.T) {
	var v struct {
		About  string
		Round  []struct{ Value, Rounded float64 }
		Fisher []struct {
			KB, NB, KN, NN int
			Worse, Better  float64
		}
		Holm []struct{ P, Adjusted []float64 }
		Sign []struct {
			B, C int
			P    float64
		}
		Delta []struct {
			Changes []struct {
				Times  int
				Change float64
			}
			Delta [3]float64
		}
		Wilson []struct {
			K, N      int
			Low, High float64
		}
	}
	readVectors(t, "statistics.json", &v)
	if len(v.Round) < 5 || len(v.Fisher) < 10 || len(v.Holm) < 4 || len(v.Sign) < 6 || len(v.Delta) < 4 || len(v.Wilson) < 4 {
		t.Fatalf("vectors are missing: %+v", v)
	}
	for _, v := range v.Round {
		if got := grade.Round(v.Value); got != v.Rounded {
			t.Errorf("Round(%v) is %v, and %v is due", v.Value, got, v.Rounded)
		}
	}
	for _, v := range v.Fisher {
		worse, better := grade.Fisher(v.KB, v.NB, v.KN, v.NN)
		if grade.Round(worse) != v.Worse || grade.Round(better) != v.Better {
			t.Errorf("Fisher of %+v is %v and %v", v, worse, better)
		}
	}
	for _, v := range v.Holm {
		// The figures of a page have 6 decimals. A vector has fractions with more.
		got := grade.Holm(v.P)
		for i := range got {
			got[i] = grade.Round(got[i])
		}
		if !slices.Equal(got, v.Adjusted) {
			t.Errorf("Holm of %v is %v, and %v is due", v.P, got, v.Adjusted)
		}
	}
	for _, v := range v.Sign {
		if got := grade.Sign(v.B, v.C); grade.Round(got) != v.P {
			t.Errorf("Sign of %+v is %v", v, got)
		}
	}
	for _, v := range v.Delta {
		var d []float64
		for _, c := range v.Changes {
			d = append(d, slices.Repeat([]float64{c.Change}, c.Times)...)
		}
		got := grade.Delta(d)
		for i := range got {
			got[i] = grade.Round(got[i])
		}
		if got != v.Delta {
			t.Errorf("Delta of %+v is %v", v, got)
		}
	}
	for _, v := range v.Wilson {
		low, high := grade.Wilson(v.K, v.N)
		if grade.Round(low) != v.Low || grade.Round(high) != v.High {
			t.Errorf("Wilson of %+v is %v to %v", v, low, high)
		}
	}
}

// TestHolmOfFisher: the adjusted figures of the page follow from tests, which no figure of 6
// decimals gives.
func TestHolmOfFisher(t *testing.T) {
	for _, v := range []struct {
		tests [][4]int
		want  []float64
	}{
		{[][4]int{{5, 5, 1, 5}, {5, 5, 2, 5}, {4, 5, 1, 5}}, []float64{0.071429, 0.166667, 0.166667}},
		{[][4]int{{10, 10, 4, 10}, {10, 10, 6, 10}}, []float64{0.010836, 0.043344}},
		{[][4]int{{10, 10, 6, 10}, {10, 10, 4, 10}}, []float64{0.043344, 0.010836}},
	} {
		var p []float64
		for _, f := range v.tests {
			worse, _ := grade.Fisher(f[0], f[1], f[2], f[3])
			p = append(p, worse)
		}
		for i, adjusted := range grade.Holm(p) {
			if grade.Round(adjusted) != v.want[i] {
				t.Errorf("test %d of %v is adjusted to %v, and %v is due", i, v.tests, adjusted, v.want[i])
			}
		}
	}
}

// exactly compares a float with a fraction of whole numbers: the error is small, and the
// rounded figure is that of the fraction.
func exactly(t *testing.T, what string, got float64, num, den *big.Int) {
	t.Helper()
	want := new(big.Rat).SetFrac(num, den)
	f, _ := want.Float64()
	// half up of a fraction that is not below 0: floor((2e6 num + den) / (2 den))
	twice := new(big.Int).Add(new(big.Int).Mul(big.NewInt(2e6), num), den)
	millionths := new(big.Int).Div(twice, new(big.Int).Mul(big.NewInt(2), den))
	rounded, _ := new(big.Rat).SetFrac(millionths, big.NewInt(1e6)).Float64()
	if math.Abs(got-f) > 1e-13+1e-11*f || grade.Round(got) != rounded {
		t.Errorf("%s is %v, and %v is exact: %v, and %v is due", what, got, f, grade.Round(got), rounded)
	}
}

// TestFisherExact: the probabilities are those of whole numbers, in all tables of few runs
// and in those of up to 99.
func TestFisherExact(t *testing.T) {
	check := func(kb, nb, kn, nn int) {
		low, high, all := new(big.Int), new(big.Int), new(big.Int)
		k := kb + kn
		for x := max(0, k-nb); x <= min(nn, k); x++ {
			ways := new(big.Int).Mul(new(big.Int).Binomial(int64(nn), int64(x)), new(big.Int).Binomial(int64(nb), int64(k-x)))
			all.Add(all, ways)
			if x <= kn {
				low.Add(low, ways)
			}
			if x >= kn {
				high.Add(high, ways)
			}
		}
		worse, better := grade.Fisher(kb, nb, kn, nn)
		exactly(t, "worse", worse, low, all)
		exactly(t, "better", better, high, all)
		mirrored, _ := grade.Fisher(nb-kb, nb, nn-kn, nn)
		exactly(t, "worse of the mirror", mirrored, high, all)
	}
	for nb := range 8 {
		for nn := range 8 {
			for kb := range nb + 1 {
				for kn := range nn + 1 {
					check(kb, nb, kn, nn)
				}
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 99))
	for range 2000 {
		nb, nn := 1+r.IntN(99), 1+r.IntN(99)
		check(r.IntN(nb+1), nb, r.IntN(nn+1), nn)
	}
	for _, k := range [][2]int{{99, 0}, {0, 99}, {99, 99}, {0, 0}, {50, 49}} {
		check(k[0], 99, k[1], 99)
	}
}

// TestSignExact: the probability is that of whole numbers, up to 10 000 cases.
func TestSignExact(t *testing.T) {
	check := func(b, c int) {
		n := b + c
		sum, term := new(big.Int), big.NewInt(1)
		for x := n; x >= b; x-- { // term is n over x
			sum.Add(sum, term)
			term.Mul(term, big.NewInt(int64(x))).Quo(term, big.NewInt(int64(n-x+1)))
		}
		exactly(t, "sign", grade.Sign(b, c), sum, new(big.Int).Lsh(big.NewInt(1), uint(n)))
	}
	for n := range 61 {
		for b := range n + 1 {
			check(b, n-b)
		}
	}
	for _, v := range [][2]int{{10_000, 0}, {0, 10_000}, {5000, 5000}, {5100, 4900}, {5082, 4918}, {4900, 5100}, {600, 400}, {1, 999}} {
		check(v[0], v[1])
	}
}

// TestDeltaExact: mean and interval are those of whole numbers, of 10 000 cases.
func TestDeltaExact(t *testing.T) {
	const prec = 300
	r := rand.New(rand.NewPCG(2, 99))
	f := func() *big.Float { return new(big.Float).SetPrec(prec) }
	for _, n := range []int{1, 2, 3, 100, 10_000} {
		for _, spread := range []int{0, 1, 99} {
			d, sum, squares := []float64{}, new(big.Rat), new(big.Rat)
			for range n {
				kb, kn := 99, 98
				if spread > 0 {
					kb, kn = r.IntN(spread+1), r.IntN(spread+1)
				}
				d = append(d, float64(kn)/99-float64(kb)/99)
				v := big.NewRat(int64(kn-kb), 99)
				sum.Add(sum, v)
				squares.Add(squares, new(big.Rat).Mul(v, v))
			}
			count := big.NewRat(int64(n), 1)
			mean := new(big.Rat).Quo(sum, count)
			left := new(big.Rat).Sub(squares, new(big.Rat).Mul(sum, mean))
			half := f().Sqrt(f().SetRat(left))
			half.Mul(half, f().SetRat(big.NewRat(1_959_964, 1_000_000))).Quo(half, f().SetRat(count))
			want := [3]*big.Float{f().SetRat(mean), f().Sub(f().SetRat(mean), half), f().Add(f().SetRat(mean), half)}
			for i, got := range grade.Delta(d) {
				if w, _ := want[i].Float64(); math.Abs(got-w) > 1e-9 {
					t.Errorf("figure %d of %d cases is %v, and %v is exact", i, n, got, w)
				}
			}
		}
	}
	if got := grade.Delta(nil); got != [3]float64{} {
		t.Errorf("Delta of nothing is %v", got)
	}
}

// TestWilsonHolds: the bounds solve the equation that defines them, are mirrored, and lie
// about the share.
func TestWilsonHolds(t *testing.T) {
	const z2 = 1.959964 * 1.959964
	for _, n := range []int{1, 2, 9, 10, 99, 10_000, 990_000} {
		for _, k := range []int{0, 1, n / 3, n / 2, n - 1, n} {
			low, high := grade.Wilson(k, n)
			share := float64(k) / float64(n)
			for _, p := range []float64{low, high} {
				if gap := float64(n)*(p-share)*(p-share) - z2*p*(1-p); math.Abs(gap) > 1e-9 {
					t.Errorf("%v does not bound %d of %d: %v", p, k, n, gap)
				}
			}
			if l, h := grade.Wilson(n-k, n); grade.Round(l) != grade.Round(1-high) || grade.Round(h) != grade.Round(1-low) {
				t.Errorf("the mirror of %d of %d is %v to %v", k, n, l, h)
			}
			if low < 0 || grade.Round(low) > grade.Round(share) || grade.Round(share) > grade.Round(high) || high > 1 {
				t.Errorf("%d of %d: %v to %v", k, n, low, high)
			}
		}
	}
	if low, high := grade.Wilson(0, 0); low != 0 || high != 1 {
		t.Errorf("0 of 0: %v to %v", low, high)
	}
}

// TestHolmHolds: an adjusted value is not below its own, is at most 1, and keeps the order.
func TestHolmHolds(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 99))
	for range 200 {
		p := make([]float64, r.IntN(40))
		for i := range p {
			p[i] = math.Pow(r.Float64(), 4)
		}
		before := slices.Clone(p)
		adjusted := grade.Holm(p)
		if !slices.Equal(p, before) || len(adjusted) != len(p) {
			t.Fatalf("%v became %v and %v", before, p, adjusted)
		}
		for i := range p {
			if adjusted[i] < p[i] || adjusted[i] > 1 {
				t.Errorf("%v is adjusted to %v", p[i], adjusted[i])
			}
			for j := range p {
				if cmp.Compare(p[i], p[j]) < 0 && adjusted[i] > adjusted[j] {
					t.Errorf("%v and %v are adjusted to %v and %v", p[i], p[j], adjusted[i], adjusted[j])
				}
			}
		}
		if len(p) > 0 {
			if least := slices.Min(p); slices.Min(adjusted) != min(1, float64(len(p))*least) {
				t.Errorf("the least of %d values, %v, is adjusted to %v", len(p), least, slices.Min(adjusted))
			}
		}
	}
}
