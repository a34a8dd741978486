package supervise

const sharedClock = 3 // CLOCK_MONOTONIC in <time.h>
