package initproc

const (
	sysKeyctl      = 219
	sysSeccomp     = 277
	sysMemfdCreate = 279
)
