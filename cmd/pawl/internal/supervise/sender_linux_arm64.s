#include "textflag.h"

// recordSender is a signal handler in C's ABI. It counts the signal by its sender, and jumps to the
// handler that it has replaced. It changes only registers that a called function may change, and none
// of its arguments.
TEXT ·recordSender(SB),NOSPLIT|NOFRAME|TOPFRAME,$0
	MOVW	8(R1), R3 // si_code: above 0 if the kernel sent it
	MOVD	$0, R4
	CMPW	$0, R3
	BLE	count
	MOVD	$4, R4
count:
	MOVWU	R0, R6 // the signal's number
	MOVD	$·counts(SB), R5
	ADD	R6<<3, R5
	ADD	R4, R5
again:
	LDAXRW	(R5), R7
	ADDW	$1, R7
	STLXRW	R7, (R5), R8
	CBNZW	R8, again
	MOVD	$·replaced(SB), R5
	ADD	R6<<3, R5
	MOVD	(R5), R9
	JMP	(R9)

DATA ·recorder(SB)/8, $·recordSender(SB)
GLOBL ·recorder(SB), RODATA, $8
