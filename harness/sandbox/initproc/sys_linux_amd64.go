package initproc

const (
	sysKeyctl      = 250
	sysSeccomp     = 317
	sysMemfdCreate = 319
)
