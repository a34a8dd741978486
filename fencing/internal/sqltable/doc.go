// Package sqltable is the table of a fence in a SQL database, for sqlfence and pgxfence. It has its
// shape, and the statements that raise and read the two registers of a resource. It imports no driver.
package sqltable
