package initproc

const (
	sysSeccomp     = 317
	sysMemfdCreate = 319
)
