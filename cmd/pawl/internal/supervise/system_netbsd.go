package supervise

const sharedClock = 3 // CLOCK_MONOTONIC in <time.h>

// waitContinued is that wait4 tells of a command that goes on. package unix reads no such status here.
const waitContinued = 0
