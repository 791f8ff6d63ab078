package initproc

const (
	sysSeccomp     = 277
	sysMemfdCreate = 279
)
