// Package s3blob is a blobfence.Store in a bucket of S3, or of a server that speaks its protocol and
// heeds If-Match and If-None-Match on PutObject. It is a separate module, so that only its users depend
// on the AWS SDK.
//
//	fence := blobfence.Fence{Store: s3blob.Store{Client: s3.NewFromConfig(cfg), Bucket: "state"}}
//
// # In the bucket
//
// An object's key is its name. Its token and the nonce of its last write are user metadata
// (x-amz-meta-pawl-token, -ahead, -nonce, -absent, -trailer). Its body is followed by a trailer of 64
// spaces and tabs. S3 compares ETags, and the ETag of an object depends only on its body. Registering a
// new token changes the metadata and not the body, so without the trailer the ETag would stay as it was,
// and a write of an older holder, conditional on that ETag, would still be applied. Get removes the
// trailer. Others who read the object see blank space at the end, which JSON, YAML and most text allow;
// a reader of binary data cuts it off, by the length in the metadata.
//
// Every write is conditional. Needed permissions: s3:GetObject, s3:PutObject, and s3:ListBucket,
// without which S3 answers 403 and not 404 for an object that is not there. An object that is
// deleted, by hand or by a lifecycle rule, forgets its token: let no such rule reach them.
package s3blob
