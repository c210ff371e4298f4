package workload

import (
	"math"
	"math/rand/v2"
)

// A Random is one stream of random numbers. The same seed gives the same
// numbers on every machine: package math does not promise that, some of its
// functions are assembly, and compilers may fuse a product and a sum, which
// rounds differently. So logarithm and exponential are computed here, with each
// product rounded.
type Random struct {
	pcg   rand.PCG
	spare float64 // a normal deviate, if has
	has   bool
}

// Purpose keeps the streams of one process apart: what one of them uses up does
// not move the others, so that two policies meet the same arrivals and faults.
type Purpose uint64

const (
	Arrivals Purpose = iota
	Marks            // keys, clients and costs of requests
	Routes
	Think
	Messages
	Faults
	Jitter
	Retries
	Service
	Scenes  // that package hunt draws
	Windows // of their quotas
	SecondLimits
	Samples // of keys, that package size draws
	NearScenes
	Classes     // of requests
	ClassScenes // that package hunt draws
	WaitScenes
)

// NewRandom returns the stream for a purpose of a process in a replication;
// process -1 is the fleet as a whole.
func NewRandom(seed uint64, replication, process int, purpose Purpose) *Random {
	a := mix(seed + mix(uint64(replication)))
	b := mix(a + mix(uint64(process+1)<<8|uint64(purpose)))
	return &Random{pcg: *rand.NewPCG(a, b)}
}

// mix is the finalizer of splitmix64.
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Uint64 is any number.
func (r *Random) Uint64() uint64 { return r.pcg.Uint64() }

// Uniform is from 0 to below 1.
func (r *Random) Uniform() float64 { return float64(float64(r.pcg.Uint64()>>11) * 0x1p-53) }

// Below is from 0 to below n.
func (r *Random) Below(n int) int { return int(r.Uniform() * float64(n)) }

// Exponential has mean 1, by the ziggurat of Marsaglia and Tsang (Journal of
// Statistical Software 5, 2000): the density is covered by 256 layers of the
// same area, and a point in one of them is nearly always below the density. It
// is five times as fast as the logarithm (BenchmarkExponential).
func (r *Random) Exponential() float64 {
	u := r.pcg.Uint64()
	layer := u & 0xff
	x := float64(u>>11) * 0x1p-53 * zigguratX[layer]
	if x < zigguratX[layer+1] {
		return x
	}
	return r.exponential(layer, x)
}

// exponential settles the rare points at the edge of a layer, and those of the
// tail, which is an exponential distribution again.
func (r *Random) exponential(layer uint64, x float64) float64 {
	for {
		if layer == 0 {
			return zigguratX[1] - ln(1-r.Uniform())
		}
		if y := zigguratY[layer] + float64(r.Uniform()*(zigguratY[layer+1]-zigguratY[layer])); y < exp(-x) {
			return x
		}
		u := r.pcg.Uint64()
		layer = u & 0xff
		if x = float64(u>>11) * 0x1p-53 * zigguratX[layer]; x < zigguratX[layer+1] {
			return x
		}
	}
}

// zigguratX are the right edges of the layers, from the lowest, and zigguratY
// the density there. The lowest layer includes the tail beyond zigguratX[1]: its
// width is that of a box of its area.
var zigguratX, zigguratY = func() (x, y [257]float64) {
	const tail, area = 7.69711747013104972, 0.0039496598225815571993
	x[1], y[1] = tail, exp(-tail)
	x[0], y[0] = area/y[1], 0
	for i := 2; i < 256; i++ {
		y[i] = y[i-1] + area/x[i-1]
		x[i] = -ln(y[i])
	}
	x[256], y[256] = 0, 1
	return x, y
}()

// Normal has mean 0 and variance 1, by Marsaglia's polar method.
func (r *Random) Normal() float64 {
	if r.has {
		r.has = false
		return r.spare
	}
	for {
		u, v := 2*r.Uniform()-1, 2*r.Uniform()-1
		if s := float64(u*u) + float64(v*v); s > 0 && s < 1 {
			f := math.Sqrt(-2 * ln(s) / s)
			r.spare, r.has = v*f, true
			return u * f
		}
	}
}

// Gamma has mean 1 and this coefficient of variation: shape 1/cv^2, by
// Marsaglia and Tsang, "A simple method for generating gamma variables", ACM
// TOMS 26 (2000); for shapes below 1 with their power of a uniform deviate.
func (r *Random) Gamma(cv float64) float64 {
	shape := 1 / (cv * cv)
	k, boost := shape, 1.0
	if k < 1 {
		boost = exp(ln(1-r.Uniform()) / k)
		k++
	}
	d := k - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.Normal()
		v := 1 + float64(c*x)
		if v <= 0 {
			continue
		}
		v = float64(v * v * v)
		if ln(1-r.Uniform()) < float64(x*x/2)+float64(d*(1-v+ln(v))) {
			return d * v * boost / shape
		}
	}
}

// Lognormal has this median and 99th percentile.
func (r *Random) Lognormal(median, p99 float64) float64 {
	const z99 = 2.3263478740408408
	return median * exp(r.Normal()*ln(p99/median)/z99)
}

// ln is the natural logarithm of x > 0: with x = m * 2^e and m near 1, it is
// e ln 2 + 2 artanh((m-1)/(m+1)), whose series is short.
func ln(x float64) float64 {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m *= 2
		e--
	}
	s := (m - 1) / (m + 1)
	z := s * s
	sum := float64(z / 19)
	for _, c := range artanh {
		sum = float64((sum + c) * z)
	}
	return float64(float64(e)*math.Ln2) + float64(2*(s+float64(s*sum)))
}

// artanh is the series of artanh(s)/s in s^2, from the back; the first term is 1.
var artanh = [...]float64{1. / 17, 1. / 15, 1. / 13, 1. / 11, 1. / 9, 1. / 7, 1. / 5, 1. / 3}

// exp is e^x: with x = k ln 2 + r it is 2^k times the series for r.
func exp(x float64) float64 {
	if x < -700 {
		return 0
	}
	x = min(x, 700)
	k := math.Floor(x/math.Ln2 + 0.5)
	r := x - float64(k*math.Ln2)
	sum := 1.0
	for n := 14; n > 0; n-- {
		sum = 1 + float64(r*sum/float64(n))
	}
	return math.Ldexp(sum, int(k))
}
