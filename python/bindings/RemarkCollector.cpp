//===- RemarkCollector.cpp - remarks of a context, kept for Python --------===//

#include "RemarkCollector.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Remarks.h"

#include <mutex>

namespace mlir::qtranspose {

/// The open collectors of every context, and the lock for all they hold.
struct RemarkHub {
  std::mutex mutex;
  llvm::DenseMap<MLIRContext *, llvm::SmallVector<RemarkCollector *, 2>> open;

  static RemarkHub &get() {
    static RemarkHub hub;
    return hub;
  }

  void publish(const RemarkRecord &record) {
    std::lock_guard lock(mutex);
    for (RemarkCollector *collector : open.lookup(record.location.getContext()))
      collector->records.push_back(record);
  }
};

namespace {

const char *kindName(llvm::remarks::Type type) {
  switch (type) {
  case llvm::remarks::Type::Passed:
    return "passed";
  case llvm::remarks::Type::Missed:
    return "missed";
  case llvm::remarks::Type::Failure:
    return "failed";
  default:
    return "analysis";
  }
}

class CollectingStreamer final : public remark::detail::MLIRRemarkStreamerBase {
public:
  void streamOptimizationRemark(const remark::detail::Remark &remark) override {
    // The engine gives the subcategory only as part of `category:subcategory`.
    llvm::StringRef category = remark.getCategoryName();
    llvm::StringRef pass = remark.getCombinedCategoryName();
    pass.consume_front(category);
    pass.consume_front(":");
    llvm::StringRef function = remark.getFunction();
    if (function == "<unknown function>")
      function = "";
    RemarkRecord record{kindName(remark.getRemarkType()),
                        remark.getRemarkName().str(),
                        category.str(),
                        pass.str(),
                        function.str(),
                        remark.getLocation(),
                        {}};
    for (const remark::detail::Remark::Arg &arg : remark.getArgs())
      record.arguments.emplace_back(arg.key, arg.val);
    RemarkHub::get().publish(record);
  }
};

} // namespace

bool RemarkCollector::open() {
  RemarkHub &hub = RemarkHub::get();
  std::lock_guard lock(hub.mutex);
  auto &collectors = hub.open[context];
  if (llvm::is_contained(collectors, this))
    return true;
  if (collectors.empty()) {
    // Installing an engine destroys the previous one, and its output with it.
    if (context->getRemarkEngine()) {
      hub.open.erase(context);
      return false;
    }
    std::string all = ".*";
    if (failed(remark::enableOptimizationRemarks(
            *context, std::make_unique<CollectingStreamer>(),
            std::make_unique<remark::RemarkEmittingPolicyAll>(),
            {all, all, all, all, all})))
      return false;
  }
  collectors.push_back(this);
  return true;
}

void RemarkCollector::close() {
  RemarkHub &hub = RemarkHub::get();
  std::lock_guard lock(hub.mutex);
  auto it = hub.open.find(context);
  if (it == hub.open.end() || !llvm::is_contained(it->second, this))
    return;
  llvm::erase(it->second, this);
  if (it->second.empty()) {
    hub.open.erase(it);
    context->setRemarkEngine(nullptr);
  }
}

std::vector<RemarkRecord> RemarkCollector::take() {
  std::lock_guard lock(RemarkHub::get().mutex);
  return std::exchange(records, {});
}

} // namespace mlir::qtranspose
