// Package web is the page: views of a cluster for a browser. It only reads.
//
// Place in the data flow:
//
//	Snapshot -> pkg/answer -> View with a layout -> JSON over HTTP -> assets/*.js draws it
//
// The layout is made here, by pure functions; the browser only draws it. The plugin serves the page on the loopback
// address, and the relay in the cluster.
package web
