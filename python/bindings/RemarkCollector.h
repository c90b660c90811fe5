//===- RemarkCollector.h - remarks kept for Python ---------------*- C++
//-*-===//
//
// MLIR 22 has neither a C nor a Python interface to its remark engine. One
// engine per context is installed while any collector of that context is open;
// it only copies remarks into the open collectors (from whatever thread a pass
// runs on, hence the lock and no Python), which Python empties at its leisure.
//
//===----------------------------------------------------------------------===//

#ifndef QTRANSPOSE_BINDINGS_REMARKCOLLECTOR_H
#define QTRANSPOSE_BINDINGS_REMARKCOLLECTOR_H

#include "mlir/IR/Location.h"

#include <string>
#include <utility>
#include <vector>

namespace mlir {
class MLIRContext;

namespace qtranspose {

/// A remark with every string copied: those of the original die with it.
struct RemarkRecord {
  /// `passed`, `missed`, `failed` or `analysis`.
  const char *kind;
  std::string name;
  std::string category;
  std::string pass;
  std::string function;
  Location location;
  std::vector<std::pair<std::string, std::string>> arguments;
};

/// Receives every remark of `context` between open() and close(). Collectors
/// nest: each open one gets its own copy. The context must outlive this.
class RemarkCollector {
public:
  explicit RemarkCollector(MLIRContext *context) : context(context) {}
  RemarkCollector(const RemarkCollector &) = delete;
  ~RemarkCollector() { close(); }

  /// Returns false when `context` has an engine that this file did not install.
  bool open();
  void close();
  std::vector<RemarkRecord> take();

private:
  friend struct RemarkHub;

  MLIRContext *context;
  std::vector<RemarkRecord> records;
};

} // namespace qtranspose
} // namespace mlir

#endif // QTRANSPOSE_BINDINGS_REMARKCOLLECTOR_H
