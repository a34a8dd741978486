#include "textflag.h"

// recordSender is a signal handler in C's ABI. It counts the signal by its sender, and jumps to the
// handler that it has replaced. It changes only registers that a called function may change, and none
// of its arguments.
TEXT ·recordSender(SB),NOSPLIT|NOFRAME|TOPFRAME,$0
	XORL	CX, CX
	CMPL	8(SI), $0 // si_code: above 0 if the kernel sent it
	JLE	count
	MOVL	$4, CX
count:
	MOVL	DI, R8 // the signal's number
	LEAQ	·counts(SB), R9
	LEAQ	(R9)(R8*8), R9
	ADDQ	CX, R9
	LOCK
	INCL	(R9)
	LEAQ	·replaced(SB), R9
	MOVQ	(R9)(R8*8), AX
	JMP	AX

DATA ·recorder(SB)/8, $·recordSender(SB)
GLOBL ·recorder(SB), RODATA, $8
