// Package back holds no code of the product: its tests put a registry back to what it was a while before, as a
// replica that lagged or a backup does, while the log stays as it is. Each row of the table is a document that is
// forgotten. Nothing that was acknowledged may be lost, skipped, blocked or out of order then, on a directory,
// Redis and PostgreSQL, for processes that begin afterwards (cold) and for those that live through it (live).
package back
